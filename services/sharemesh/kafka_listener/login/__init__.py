"""How clients of Kafka say who they are: SASL, one login for each connection."""
