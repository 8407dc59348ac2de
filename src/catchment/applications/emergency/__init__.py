"""A city's emergency response: what citizens report, sensors measure and traffic shows, and crews sent where they are needed."""
