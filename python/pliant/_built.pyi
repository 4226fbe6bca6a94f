version: str
torch_version: str
compiler: str
build_type: str
