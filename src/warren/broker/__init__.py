"""The broker: a store on the network, by Kafka's protocol and by calls of our own."""
