//! A server that answers each request on its own stream, and a client that sends one.
//!
//! Run it with `cargo run -p rc3-net --example client_server`.

use std::{error::Error, net::SocketAddr};

use rc3_net::{ClientConfig, Connection, Endpoint, VarInt};

mod common;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (client_config, server_config) = common::configs()?;
    let server = Endpoint::server(server_config, "127.0.0.1:0".parse()?)?;
    let address = server.local_addr()?;
    let serving = tokio::spawn(serve(server));

    ask(client_config, address).await?;
    serving.await?;
    Ok(())
}

async fn serve(endpoint: Endpoint) {
    let Some(incoming) = endpoint.accept().await else { return };
    match incoming.await {
        Ok(connection) => answer(&connection).await,
        Err(error) => eprintln!("server: no connection: {error}"),
    }
    endpoint.wait_idle().await;
}

/// Serves until the client closes the connection.
async fn answer(connection: &Connection) {
    while let Ok((mut send, mut recv)) = connection.accept_bi().await {
        let Ok(request) = recv.read_to_end(64 * 1024).await else { continue };
        println!("server: {}", String::from_utf8_lossy(&request));
        // Dropping `send` ends the stream. A client that has gone by now needs no answer.
        let _ = send.write_all(&request.repeat(100_000)).await;
    }
}

async fn ask(config: ClientConfig, address: SocketAddr) -> Result<(), Box<dyn Error>> {
    let mut endpoint = Endpoint::client("127.0.0.1:0".parse()?)?;
    endpoint.set_default_client_config(config);
    let connection = endpoint.connect(address, "localhost")?.await?;

    let (mut send, mut recv) = connection.open_bi().await?;
    send.write_all(b"hello").await?;
    send.finish()?;
    let answer = recv.read_to_end(1 << 20).await?;
    let by_rlp: u64 = connection.stats().received.rlp_bytes.iter().sum();
    println!("client: {} bytes, {by_rlp} of them by RLP", answer.len());

    connection.close(VarInt::from_u32(0), b"done");
    endpoint.wait_idle().await;
    Ok(())
}
