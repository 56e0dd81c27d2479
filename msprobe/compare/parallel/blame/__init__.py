"""Which ranks make a value of a merged model wrong."""
