"""A pipeline kept running: the process that supervises, the one that has Spark, and what they tell the world."""
