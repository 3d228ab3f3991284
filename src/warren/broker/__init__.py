"""The broker: a store on the network, over Kafka's protocol and Warren's own."""
