"""The one idea that turns, tools and ladders share: layers around an app, and events."""
