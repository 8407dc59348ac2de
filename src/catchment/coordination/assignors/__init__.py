"""Who reads which partition: the assignors that run in the coordinator, as pure functions of a group."""
