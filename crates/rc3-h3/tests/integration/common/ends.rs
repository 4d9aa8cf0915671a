//! Pairs of connected endpoints.

use std::{net::SocketAddr, sync::Arc};

use rc3_net::TransportConfig;
use rc3_sim::identity::{SERVER_NAME, tls};

/// Two ends of one connection, and what keeps it alive.
pub(crate) struct Ends<C, S> {
    pub(crate) client: C,
    pub(crate) server: S,
    /// Endpoints live as long as the test.
    _endpoints: Box<dyn Send>,
}

const ANY: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

/// rc3 at both ends; `change` adapts their transport.
pub(crate) async fn rc3(
    change: impl Fn(&mut TransportConfig),
) -> Ends<rc3_net::Connection, rc3_net::Connection> {
    let (mut client_config, mut server_config) = rc3_sim::identity::identity(&["h3"]);
    let mut transport = TransportConfig::default();
    change(&mut transport);
    let transport = Arc::new(transport);
    client_config.transport_config(transport.clone());
    server_config.transport_config(transport);
    let server = rc3_net::Endpoint::server(server_config, ANY.into()).unwrap();
    let client = rc3_net::Endpoint::client(ANY.into()).unwrap();
    let connecting = client.connect_with(client_config, server.local_addr().unwrap(), SERVER_NAME).unwrap();
    let accepting = async { server.accept().await.unwrap().await };
    let (connected, accepted) = tokio::try_join!(connecting, accepting).unwrap();
    assert!(connected.is_rc3() && accepted.is_rc3());
    Ends { client: connected, server: accepted, _endpoints: Box::new((client, server)) }
}

/// A client of quinn, a server of rc3.
pub(crate) async fn quinn_client() -> Ends<quinn::Connection, rc3_net::Connection> {
    let (client_tls, server_tls) = tls(&["h3"]);
    let server_config = rc3_net::ServerConfig::with_crypto(Arc::new(server_tls));
    let server = rc3_net::Endpoint::server(server_config, ANY.into()).unwrap();
    let client = quinn_endpoint(None);
    let connecting =
        client.connect_with(quinn_config(client_tls), server.local_addr().unwrap(), SERVER_NAME).unwrap();
    let accepting = async { server.accept().await.unwrap().await.unwrap() };
    let (connected, accepted) = tokio::join!(connecting, accepting);
    assert!(!accepted.is_rc3());
    Ends { client: connected.unwrap(), server: accepted, _endpoints: Box::new((client, server)) }
}

/// A client of rc3, a server of quinn.
pub(crate) async fn quinn_server() -> Ends<rc3_net::Connection, quinn::Connection> {
    let (client_tls, server_tls) = tls(&["h3"]);
    let crypto = quinn::crypto::rustls::QuicServerConfig::try_from(server_tls).unwrap();
    let server = quinn_endpoint(Some(quinn::ServerConfig::with_crypto(Arc::new(crypto))));
    let client = rc3_net::Endpoint::client(ANY.into()).unwrap();
    let client_config = rc3_net::ClientConfig::new(Arc::new(client_tls));
    let connecting = client.connect_with(client_config, server.local_addr().unwrap(), SERVER_NAME).unwrap();
    let accepting = async { server.accept().await.unwrap().await.unwrap() };
    let (connected, accepted) = tokio::join!(connecting, accepting);
    let connected = connected.unwrap();
    assert!(!connected.is_rc3());
    Ends { client: connected, server: accepted, _endpoints: Box::new((client, server)) }
}

fn quinn_config(tls: rc3_net::rustls::ClientConfig) -> quinn::ClientConfig {
    quinn::ClientConfig::new(Arc::new(quinn::crypto::rustls::QuicClientConfig::try_from(tls).unwrap()))
}

fn quinn_endpoint(server: Option<quinn::ServerConfig>) -> quinn::Endpoint {
    let address = SocketAddr::from(ANY);
    match server {
        Some(config) => quinn::Endpoint::server(config, address).unwrap(),
        None => quinn::Endpoint::client(address).unwrap(),
    }
}
