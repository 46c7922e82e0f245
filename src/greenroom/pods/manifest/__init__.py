"""What a troupe's class body says, and whether it makes sense: values and checks, nothing that runs."""
