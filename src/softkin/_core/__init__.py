"""What everything rests on: checks of arguments, names and registries, randomness, ranks, progress, workers."""
