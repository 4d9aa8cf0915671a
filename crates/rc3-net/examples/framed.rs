//! Requests and responses in length-delimited frames, as in gRPC, by tokio-util's codec over [`rc3_net::Stream`].
//! Codec, requests and answers do not depend on the transport.
//!
//! Run it with `cargo run -p rc3-net --example framed`.

use std::{error::Error, io};

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use rc3_net::{Endpoint, Listener, Stream};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::codec::{Framed, LengthDelimitedCodec};

mod common;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (client_config, server_config) = common::configs()?;
    let listener = Listener::bind(server_config, "127.0.0.1:0".parse()?)?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, peer)) = listener.accept().await {
            tokio::spawn(async move {
                if let Err(error) = answer(stream).await {
                    eprintln!("server: {peer}: {error}");
                }
            });
        }
    });

    let mut endpoint = Endpoint::client("127.0.0.1:0".parse()?)?;
    endpoint.set_default_client_config(client_config);
    let stream = Stream::connect(&endpoint, address, "localhost").await?;
    for (request, response) in ask(stream, &["unary", "call"]).await? {
        println!("client: {request} -> {response}");
    }
    endpoint.wait_idle().await;
    Ok(())
}

/// Works on any byte stream.
fn frames<T: AsyncRead + AsyncWrite>(io: T) -> Framed<T, LengthDelimitedCodec> {
    LengthDelimitedCodec::builder().max_frame_length(4 << 20).new_framed(io)
}

/// Answers each frame with its bytes in capitals, until the peer ends the stream.
async fn answer(io: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    let mut frames = frames(io);
    while let Some(request) = frames.next().await {
        frames.send(Bytes::from(request?.to_ascii_uppercase())).await?;
    }
    SinkExt::<Bytes>::close(&mut frames).await
}

async fn ask(
    io: impl AsyncRead + AsyncWrite + Unpin,
    requests: &[&str],
) -> io::Result<Vec<(String, String)>> {
    let mut frames = frames(io);
    let mut answers = Vec::new();
    for request in requests {
        frames.send(Bytes::from(request.to_string())).await?;
        let response = frames.next().await.ok_or(io::ErrorKind::UnexpectedEof)??;
        answers.push((request.to_string(), String::from_utf8_lossy(&response).into_owned()));
    }
    Ok(answers)
}
