"""The layers of a call's pipeline, one file each; `pipeline` holds their order."""
