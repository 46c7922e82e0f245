"""Which build this is: in a compiled one, `receipt` is an extension like the other hot modules."""

from greenroom._core import receipt

COMPILED: bool = not receipt.__file__.endswith((".py", ".pyc"))
