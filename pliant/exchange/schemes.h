// SPDX-License-Identifier: MIT
// Constructors of flights, one for each scheme; exchange::depart() chooses.
#pragma once

#include <memory>

#include "pliant/exchange/flight.h"

namespace pliant::exchange {

std::unique_ptr<Flight> depart_dense(const comm::Communicator& communicator, ResidualGroup& group,
                                     const Terms& terms, const compress::Contribution& contribution,
                                     const comm::Floats& in_place);
std::unique_ptr<Flight> depart_union(const comm::Communicator& communicator, ResidualGroup& group,
                                     const Terms& terms,
                                     const compress::Contribution& contribution);
std::unique_ptr<Flight> depart_shared(const comm::Communicator& communicator, ResidualGroup& group,
                                      const Terms& terms,
                                      const compress::Contribution& contribution);
std::unique_ptr<Flight> depart_srs(const comm::Communicator& communicator, ResidualGroup& group,
                                   const Terms& terms, const compress::Contribution& contribution);

}  // namespace pliant::exchange
