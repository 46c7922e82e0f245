"""What users write against: Actor, Context, Behaviors, Props and spawn."""
