"""The long run over the network: clients of all kinds, a broker that is killed, and a proxy that cuts connections."""
