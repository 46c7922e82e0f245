"""Log lines from files and sockets, sorted, windowed and indexed; whatever is killed on the way, none is lost.

heads      the actors that read files and sockets: start reading here
listener   takes connections, and has a head made for each
merger     sorts what they read into windows of time
indexer    writes windows to SQLite, and says what is safe
store      the database
tree       who supervises whom
messages   what they send to one another
clients    programs that send lines to it, and send again what is not acknowledged
trouble    kills any part, at any moment
"""
