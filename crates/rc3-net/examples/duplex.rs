//! The usual TCP echo server, with [`rc3_net::Listener`] and [`rc3_net::Stream`] instead of `TcpListener` and
//! `TcpStream`.
//!
//! Run it with `cargo run -p rc3-net --example duplex`.

use std::error::Error;

use rc3_net::{Endpoint, Listener, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

mod common;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (client_config, server_config) = common::configs()?;
    let listener = Listener::bind(server_config, "127.0.0.1:0".parse()?)?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, peer)) = listener.accept().await {
            println!("server: {peer} is here");
            tokio::spawn(async move {
                let (mut read, mut write) = stream.into_split();
                if let Err(error) = tokio::io::copy(&mut read, &mut write).await {
                    eprintln!("server: {peer}: {error}");
                }
            });
        }
    });

    let mut endpoint = Endpoint::client("127.0.0.1:0".parse()?)?;
    endpoint.set_default_client_config(client_config);
    let mut stream = Stream::connect(&endpoint, address, "localhost").await?;
    stream.write_all(b"there and back").await?;
    stream.shutdown().await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    println!("client: {answer}");

    drop(stream);
    endpoint.wait_idle().await;
    Ok(())
}
