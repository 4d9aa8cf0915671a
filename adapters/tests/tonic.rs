//! gRPC over rc3: unary calls, streams of the server, and statuses in trailers.

#[path = "../examples/common/mod.rs"]
mod identity;
#[path = "../examples/common/numbers.rs"]
mod numbers;

use std::{future, sync::Arc, time::Duration};

use numbers::{Arithmetic, COUNT_MAX, Number, NumbersClient, NumbersServer};
use rc3_adapters::{
    Client, Settings,
    rc3_h3::{self, rc3_net},
    serve,
};
use tonic::Code;

/// Longer than all calls take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn calls_and_streams_travel_over_rc3() {
    tokio::time::timeout(PATIENCE, calls_and_streams()).await.expect("the test hangs");
}

async fn calls_and_streams() {
    let identity = identity::Identity::new().unwrap();
    let any = ([127, 0, 0, 1], 0).into();
    let config = rc3_net::ServerConfig::with_crypto(Arc::new(identity.server));
    let server = rc3_net::Endpoint::server(config, any).unwrap();
    let address = server.local_addr().unwrap();
    let service_for = |_: &_| NumbersServer::new(Arithmetic);
    tokio::spawn(serve(server, service_for, Settings::default(), future::pending()));

    let endpoint = rc3_net::Endpoint::client(any).unwrap();
    let config = rc3_net::ClientConfig::new(Arc::new(identity.client));
    let connection = endpoint.connect_with(config, address, "localhost").unwrap().await.unwrap();
    let channel = Client::new(rc3_h3::Connection::new(connection.clone())).await.unwrap();
    let mut client = NumbersClient::with_origin(channel, "https://localhost".parse().unwrap());

    assert_eq!(client.square(Number { value: 12 }).await.unwrap().into_inner().value, 144);
    let status = client.square(Number { value: u64::MAX }).await.unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange);

    let mut counting = client.count(Number { value: 3 }).await.unwrap().into_inner();
    for value in 0..3 {
        assert_eq!(counting.message().await.unwrap(), Some(Number { value }));
    }
    assert_eq!(counting.message().await.unwrap(), None);
    assert!(counting.trailers().await.unwrap().is_some(), "the status is in the trailers");

    // The status of this one follows all of its numbers.
    let mut counting = client.count(Number { value: COUNT_MAX + 1 }).await.unwrap().into_inner();
    for value in 0..COUNT_MAX {
        assert_eq!(counting.message().await.unwrap(), Some(Number { value }));
    }
    assert_eq!(counting.message().await.unwrap_err().code(), Code::OutOfRange);
    let stats = connection.stats();
    assert!(stats.rc3 && stats.received.rlp_bytes.iter().any(|bytes| *bytes > 0), "{stats:?}");
}
