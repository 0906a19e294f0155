"""The Go modules of the providers whose node classes are read."""

from typing import Final

from e2e.karpenter.module_files import Module

AZURE: Final = Module(
    "github.com/Azure/karpenter-provider-azure", "v1.14.2", "h1:ahAvrgrlHNbPJxPiusamAES7cGkGOJYse2mGlRA2Hao="
)
AWS: Final = Module(
    "github.com/aws/karpenter-provider-aws", "v1.15.2", "h1:RGw64PB2ROUHZIUhBqjO78l3zJ9YctnWeullrr4cxYI="
)
