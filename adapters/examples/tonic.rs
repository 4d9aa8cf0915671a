//! gRPC by tonic over rc3: a unary call and a stream of the server.
//!
//! Run it with `cargo run --manifest-path adapters/Cargo.toml --example tonic`.

use std::{error::Error, future, sync::Arc};

use numbers::{Arithmetic, Number, NumbersClient, NumbersServer};
use rc3_adapters::{
    Client, Settings,
    rc3_h3::{
        self,
        rc3_net::{ClientConfig, Endpoint, ServerConfig},
    },
    serve,
};

mod common;
#[path = "common/numbers.rs"]
mod numbers;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let identity = common::Identity::new()?;
    let server_config = ServerConfig::with_crypto(Arc::new(identity.server));
    let server = Endpoint::server(server_config, "127.0.0.1:0".parse()?)?;
    let address = server.local_addr()?;
    let service_for = |_: &_| NumbersServer::new(Arithmetic);
    tokio::spawn(serve(server, service_for, Settings::default(), future::pending()));

    let endpoint = Endpoint::client("127.0.0.1:0".parse()?)?;
    let config = ClientConfig::new(Arc::new(identity.client));
    let connection = endpoint.connect_with(config, address, "localhost")?.await?;
    println!("client: the connection is {}", if connection.is_rc3() { "rc3" } else { "plain QUIC" });
    let channel = Client::new(rc3_h3::Connection::new(connection)).await?;
    let mut client = NumbersClient::with_origin(channel, "https://localhost".parse()?);

    let square = client.square(Number { value: 12 }).await?.into_inner().value;
    println!("client: the square of 12 is {square}");
    let mut counting = client.count(Number { value: 50_000 }).await?.into_inner();
    let mut sum = 0;
    while let Some(number) = counting.message().await? {
        sum += number.value;
    }
    println!("client: the numbers below 50000 add up to {sum}");
    drop((client, counting));
    endpoint.wait_idle().await;
    Ok(())
}
