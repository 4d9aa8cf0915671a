//! An axum server on rc3, and clients of rc3 and of quinn.
#![allow(dead_code, reason = "no test file uses all of it")]

#[path = "../../examples/common/mod.rs"]
pub(crate) mod identity;
pub(crate) mod made;
pub(crate) mod router;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::Extension;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use identity::Identity;
use rc3_adapters::{
    Body, Client, SendError, Settings, Transport,
    rc3_h3::{
        self,
        rc3_net::{self, Connection},
    },
    serve,
};
use router::Seen;
use tokio::{sync::oneshot, task::JoinHandle};
use tower_service::Service;

/// Longer than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

const ANY: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

/// A server that runs until it is stopped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) identity: Identity,
    pub(crate) seen: Seen,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Server {
    pub(crate) fn start(settings: Settings) -> Self {
        let identity = Identity::new().unwrap();
        let config = rc3_net::ServerConfig::with_crypto(Arc::new(identity.server.clone()));
        let endpoint = rc3_net::Endpoint::server(config, ANY.into()).unwrap();
        let address = endpoint.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let seen = Seen::default();
        let router = router::router(seen.clone());
        let service_for = move |connection: &Connection| router.clone().layer(Extension(connection.clone()));
        let serving = tokio::spawn(serve(endpoint, service_for, settings, async { _ = stopped.await }));
        Self { address, identity, seen, stop, serving }
    }

    /// Begins the shutdown; the handle resolves when every connection has ended.
    pub(crate) fn stop(self) -> JoinHandle<()> {
        self.stop.send(()).unwrap();
        self.serving
    }

    pub(crate) async fn rc3_client(&self) -> (rc3_net::Endpoint, Connection, Client<rc3_h3::Connection>) {
        let (endpoint, config) = (endpoint(), client_config(&self.identity));
        let connection = endpoint.connect_with(config, self.address, "localhost").unwrap().await.unwrap();
        let client = Client::new(rc3_h3::Connection::new(connection.clone())).await.unwrap();
        (endpoint, connection, client)
    }

    pub(crate) async fn quinn_client(&self) -> (quinn::Endpoint, Client<h3_quinn::Connection>) {
        let endpoint = quinn::Endpoint::client(ANY.into()).unwrap();
        let tls = self.identity.client.clone();
        let crypto = quinn::crypto::rustls::QuicClientConfig::try_from(tls).unwrap();
        let config = quinn::ClientConfig::new(Arc::new(crypto));
        let connection = endpoint.connect_with(config, self.address, "localhost").unwrap().await.unwrap();
        (endpoint, Client::new(h3_quinn::Connection::new(connection)).await.unwrap())
    }
}

pub(crate) fn endpoint() -> rc3_net::Endpoint {
    rc3_net::Endpoint::client(ANY.into()).unwrap()
}

pub(crate) fn client_config(identity: &Identity) -> rc3_net::ClientConfig {
    rc3_net::ClientConfig::new(Arc::new(identity.client.clone()))
}

pub(crate) async fn get<T: Transport>(
    client: &mut Client<T>,
    path: &str,
) -> Result<Response<Body>, SendError> {
    client.call(request("GET", path, Full::<Bytes>::default())).await
}

/// The whole body of a GET request.
pub(crate) async fn fetch<T: Transport>(client: &mut Client<T>, path: &str) -> Result<Bytes, SendError> {
    Ok(get(client, path).await?.into_body().collect().await?.to_bytes())
}

pub(crate) fn request<B>(method: &str, path: &str, body: B) -> Request<B> {
    Request::builder().method(method).uri(format!("https://localhost{path}")).body(body).unwrap()
}

/// Runs `test` on several threads, but not forever.
pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, test).await.expect("the test hangs") });
}

/// Waits until `condition` holds.
pub(crate) async fn until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
