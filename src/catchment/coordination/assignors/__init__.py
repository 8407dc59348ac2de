"""The assignors of the coordinator: pure functions from the members and topics of a group to an assignment."""
