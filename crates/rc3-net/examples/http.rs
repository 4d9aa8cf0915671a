//! HTTP/1.1 by hyper, server and client, with [`rc3_net::Listener`] and [`rc3_net::Stream`] instead of `TcpListener`
//! and `TcpStream`. The service and the requests do not depend on them.
//!
//! Run it with `cargo run -p rc3-net --example http`.

use std::{convert::Infallible, error::Error};

use http_body_util::{BodyExt, Empty, Full};
use hyper::{Request, Response, body::Bytes, body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use rc3_net::{Endpoint, Listener, Stream};

mod common;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (client_config, server_config) = common::configs()?;
    let listener = Listener::bind(server_config, "127.0.0.1:0".parse()?)?;
    let address = listener.local_addr()?;
    tokio::spawn(serve(listener));

    let mut endpoint = Endpoint::client("127.0.0.1:0".parse()?)?;
    endpoint.set_default_client_config(client_config);
    let stream = Stream::connect(&endpoint, address, "localhost").await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let driving = tokio::spawn(connection);
    for path in ["/", "/again"] {
        let request = Request::get(path).header("host", "localhost").body(Empty::<Bytes>::new())?;
        sender.ready().await?;
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        println!("client: {path}: {status}, {} bytes", body.len());
    }
    drop(sender);
    driving.await??;
    endpoint.wait_idle().await;
    Ok(())
}

async fn serve(listener: Listener) {
    while let Ok((stream, peer)) = listener.accept().await {
        println!("server: {peer} is here");
        tokio::spawn(async move {
            let connection = hyper::server::conn::http1::Builder::new();
            if let Err(error) = connection.serve_connection(TokioIo::new(stream), service_fn(hello)).await {
                eprintln!("server: {peer}: {error}");
            }
        });
    }
}

async fn hello(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let line = format!("hello, {}\n", request.uri().path());
    Ok(Response::new(line.repeat(100_000).into()))
}
