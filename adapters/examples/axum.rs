//! An axum server and a client, both over rc3.
//!
//! Run it with `cargo run --manifest-path adapters/Cargo.toml --example axum`.

use std::{error::Error, sync::Arc};

use axum::{Extension, Router, body::Bytes, extract::Path, routing};
use http::Request;
use http_body_util::{BodyExt, Full};
use rc3_adapters::{
    Client, Settings,
    rc3_h3::{
        self,
        rc3_net::{ClientConfig, Connection, Endpoint, ServerConfig},
    },
    serve,
};
use tokio::sync::oneshot;
use tower_service::Service;

mod common;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let identity = common::Identity::new()?;
    let server_config = ServerConfig::with_crypto(Arc::new(identity.server));
    let server = Endpoint::server(server_config, "127.0.0.1:0".parse()?)?;
    let address = server.local_addr()?;
    let (stop, stopped) = oneshot::channel::<()>();
    // Each connection has its router: handlers can ask for the connection.
    let service_for = |connection: &Connection| router().layer(Extension(connection.clone()));
    let serving = tokio::spawn(serve(server, service_for, Settings::default(), async { _ = stopped.await }));

    let endpoint = Endpoint::client("127.0.0.1:0".parse()?)?;
    let config = ClientConfig::new(Arc::new(identity.client));
    let connection = endpoint.connect_with(config, address, "localhost")?.await?;
    println!("client: the connection is {}", if connection.is_rc3() { "rc3" } else { "plain QUIC" });
    let mut client = Client::new(rc3_h3::Connection::new(connection.clone())).await?;
    for path in ["/hello/world", "/bytes/5000000"] {
        let request = Request::get(format!("https://localhost{path}")).body(Full::<Bytes>::default())?;
        let response = client.call(request).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        println!("client: {path}: {status}, {} bytes", body.len());
    }
    let by_rlp: u64 = connection.stats().received.rlp_bytes.iter().sum();
    println!("client: {by_rlp} bytes arrived by RLP");

    drop(client);
    _ = stop.send(());
    serving.await?;
    endpoint.wait_idle().await;
    Ok(())
}

fn router() -> Router {
    Router::new().route("/hello/{name}", routing::get(hello)).route("/bytes/{count}", routing::get(bytes))
}

async fn hello(Path(name): Path<String>, Extension(connection): Extension<Connection>) -> String {
    let transport = if connection.is_rc3() { "rc3" } else { "HTTP/3" };
    format!("hello {name}, over {transport}\n")
}

async fn bytes(Path(count): Path<u32>) -> Vec<u8> {
    vec![7; count.min(10_000_000) as usize]
}
