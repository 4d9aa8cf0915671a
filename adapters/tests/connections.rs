//! Connections beyond the limit of a server.

mod common;

use std::{net::SocketAddr, sync::atomic::Ordering};

use common::{Server, fetch, run, until};
use rc3_adapters::{
    Client, Settings,
    rc3_h3::{
        self,
        rc3_net::{self, Connection, ConnectionError},
    },
};

fn connections_max(max: usize) -> Settings {
    let mut settings = Settings::default();
    settings.connections_max = max;
    settings
}

/// A connection from an address of this host.
async fn connect(server: &Server, host: [u8; 4]) -> Result<(rc3_net::Endpoint, Connection), ConnectionError> {
    let endpoint = rc3_net::Endpoint::client(SocketAddr::from((host, 0))).unwrap();
    let config = common::client_config(&server.identity);
    let connection = endpoint.connect_with(config, server.address, "localhost").unwrap().await?;
    Ok((endpoint, connection))
}

const ONE: [u8; 4] = [127, 0, 0, 1];
const OTHER: [u8; 4] = [127, 0, 0, 2];

/// Idle connections of one address take all slots, and more of them keep coming.
#[test]
fn idle_connections_of_one_address_lock_nobody_out() {
    run(async {
        let server = Server::start(connections_max(4));
        let mut idle = Vec::new();
        for _ in 0..8 {
            idle.push(connect(&server, ONE).await.expect("the oldest gives way"));
        }
        let (_endpoint, connection) = connect(&server, OTHER).await.expect("nobody is locked out");
        let mut client = Client::new(rc3_h3::Connection::new(connection.clone())).await.unwrap();
        for _ in 0..8 {
            idle.push(connect(&server, ONE).await.expect("the oldest gives way"));
            assert_eq!(fetch(&mut client, "/transport").await.unwrap(), "rc3");
        }
        let open = || idle.iter().filter(|(_, connection)| connection.close_reason().is_none()).count();
        until(|| open() == 3).await;
        assert!(connection.close_reason().is_none(), "its network has the fewest");
    });
}

/// Requests without an end take all slots.
#[test]
fn requests_of_one_address_lock_nobody_out() {
    run(async {
        let server = Server::start(connections_max(2));
        let seen = server.seen.clone();
        let mut waiting = Vec::new();
        for count in 1..=2 {
            let (endpoint, connection) = connect(&server, ONE).await.unwrap();
            let mut client = Client::new(rc3_h3::Connection::new(connection)).await.unwrap();
            waiting.push((endpoint, tokio::spawn(async move { fetch(&mut client, "/wait").await })));
            until(|| seen.waiting.load(Ordering::Relaxed) == count).await;
        }
        connect(&server, ONE).await.expect_err("a connection with a request gives way to no equal");
        let other = connect(&server, OTHER).await.expect("nobody is locked out");
        let (_endpoint, oldest) = waiting.remove(0);
        oldest.await.unwrap().expect_err("the oldest gives way");
        assert!(other.1.close_reason().is_none());
        seen.go.notify_waiters();
        seen.go.notify_one();
        assert_eq!(waiting.remove(0).1.await.unwrap().unwrap(), "late");
    });
}
