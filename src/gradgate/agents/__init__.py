"""Answer coding agents: the judge as tools of the Model Context Protocol, and the skill that says how to use it."""
