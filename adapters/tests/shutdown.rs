//! The end of a server with requests under way.

mod common;

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use common::{Server, fetch, get, run, until};
use http_body_util::BodyExt;
use rc3_adapters::{Settings, rc3_h3::rc3_net::TransportConfig};

fn limit(limit: Duration) -> Settings {
    let mut settings = Settings::default();
    settings.shutdown_limit = limit;
    settings
}

#[test]
fn accepted_requests_complete_and_new_ones_are_rejected() {
    run(async {
        let server = Server::start(limit(Duration::from_secs(3600)));
        let seen = server.seen.clone();
        let (_endpoint, _connection, client) = server.rc3_client().await;
        let mut asking = client.clone();
        let late = tokio::spawn(async move { fetch(&mut asking, "/wait").await });
        until(|| seen.waiting.load(Ordering::Relaxed) == 1).await;

        let mut new = client.clone();
        let (endpoint, config) = (common::endpoint(), common::client_config(&server.identity));
        let address = server.address;
        let serving = server.stop();
        // One way or the other: by the server, or by the client after it got the GOAWAY frame.
        while fetch(&mut new, "/transport").await.is_ok() {}
        assert!(endpoint.connect_with(config, address, "localhost").unwrap().await.is_err());
        seen.go.notify_one();
        assert_eq!(late.await.unwrap().unwrap(), "late");
        // The server waits for its clients: they may still be reading.
        assert!(!serving.is_finished());
        drop((new, client));
        serving.await.unwrap();
    });
}

#[test]
fn requests_that_take_too_long_are_cut_off() {
    run(async {
        let server = Server::start(limit(Duration::from_millis(200)));
        let seen = server.seen.clone();
        let (_endpoint, _connection, mut client) = server.rc3_client().await;
        let mut body = get(&mut client, "/endless").await.unwrap().into_body();
        server.stop().await.unwrap();
        while let Some(frame) = body.frame().await {
            if frame.is_err() {
                until(|| seen.dropped.load(Ordering::Relaxed) == 1).await;
                return;
            }
        }
        panic!("an endless body ended like a whole one");
    });
}

#[test]
fn a_client_that_allows_no_streams_does_not_hold_up_the_end() {
    run(async {
        let server = Server::start(limit(Duration::from_millis(200)));
        let mut transport = TransportConfig::default();
        transport.max_concurrent_uni_streams(0_u32.into()).keep_alive_interval(Some(Duration::from_secs(1)));
        let (endpoint, mut config) = (common::endpoint(), common::client_config(&server.identity));
        config.transport_config(Arc::new(transport));
        let connection = endpoint.connect_with(config, server.address, "localhost").unwrap().await.unwrap();
        let serving = server.stop();
        tokio::time::timeout(Duration::from_secs(10), serving).await.expect("the server ends").unwrap();
        connection.closed().await;
    });
}
