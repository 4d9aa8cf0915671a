//! Requests per second of rc3-h3 and of h3-quinn, the same axum router over each.
//!
//! Each pair measures both transports one after the other, in alternating order. Server and client share one process
//! and one runtime; quinn has its default settings, and so has rc3. Run it with `cargo run --release --manifest-path
//! adapters/Cargo.toml --example rate -- [PAIRS] [SECONDS]`. For a profiler `rate only TRANSPORT PATH [SECONDS]` measures
//! one of them: `rc3` or `quinn`, `/1k` or `/64k`.

use std::{error::Error, sync::Arc, time::Duration};

use axum::{Router, body::Bytes, routing};
use http::Request;
use http_body_util::{BodyExt, Full};
use rc3_adapters::{
    Client, Settings, Transport,
    rc3_h3::{self, rc3_net},
    serve, serve_connection,
};
use tokio::time::Instant;
use tower_service::Service;

mod common;

const CONCURRENT: usize = 32;
const PATHS: [(&str, usize); 2] = [("/1k", 1000), ("/64k", 64_000)];
const ANY: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).peekable();
    if arguments.next_if_eq("only").is_some() {
        return only(arguments).await;
    }
    let pairs: usize = arguments.next().map_or(Ok(10), |pairs| pairs.parse())?;
    let seconds = arguments.next().map_or(Ok(2.0), |seconds| seconds.parse())?;
    let time = Duration::from_secs_f64(seconds);
    println!("{CONCURRENT} requests at once, {pairs} pairs of {seconds} s; medians of requests per second");
    for path in PATHS {
        let mut rates = [Vec::new(), Vec::new()];
        for pair in 0..pairs {
            // Either transport is the first one equally often.
            for which in [pair % 2, 1 - pair % 2] {
                let rate = if which == 0 { rc3(path, time).await? } else { quinn(path, time).await? };
                rates[which].push(rate);
            }
        }
        let ratios: Vec<f64> = rates[0].iter().zip(&rates[1]).map(|(rc3, quinn)| rc3 / quinn).collect();
        let [rc3, quinn] = rates.map(median);
        println!(
            "GET {}: rc3-h3 {rc3:.0}, h3-quinn {quinn:.0}, ratio of pairs {:.2}",
            path.0,
            median(ratios)
        );
    }
    Ok(())
}

async fn only(mut arguments: impl Iterator<Item = String>) -> Result<(), Box<dyn Error>> {
    let transport = arguments.next();
    let path = arguments.next().and_then(|path| PATHS.into_iter().find(|&(known, _)| known == path));
    let path = path.ok_or("the path is /1k or /64k")?;
    let seconds = arguments.next().map_or(Ok(2.0), |seconds| seconds.parse())?;
    let time = Duration::from_secs_f64(seconds);
    let rate = match transport.as_deref() {
        Some("rc3") => rc3(path, time).await?,
        Some("quinn") => quinn(path, time).await?,
        _ => return Err("the transport is rc3 or quinn".into()),
    };
    println!("{rate:.0} requests per second");
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn router() -> Router {
    PATHS.into_iter().fold(Router::new(), |router, (path, size)| {
        let body = Bytes::from(vec![7; size]);
        router.route(path, routing::get(move || std::future::ready(body.clone())))
    })
}

async fn rc3(path: (&'static str, usize), time: Duration) -> Result<f64, Box<dyn Error>> {
    let identity = common::Identity::new()?;
    let config = rc3_net::ServerConfig::with_crypto(Arc::new(identity.server));
    let server = rc3_net::Endpoint::server(config, ANY.into())?;
    let address = server.local_addr()?;
    let router = router();
    let serving =
        tokio::spawn(serve(server, move |_| router.clone(), Settings::default(), std::future::pending()));

    let endpoint = rc3_net::Endpoint::client(ANY.into())?;
    let config = rc3_net::ClientConfig::new(Arc::new(identity.client));
    let connection = endpoint.connect_with(config, address, "localhost")?.await?;
    if !connection.is_rc3() {
        return Err("the connection is not rc3".into());
    }
    let rate = rate(Client::new(rc3_h3::Connection::new(connection)).await?, path, time).await?;
    endpoint.wait_idle().await;
    serving.abort();
    Ok(rate)
}

async fn quinn(path: (&'static str, usize), time: Duration) -> Result<f64, Box<dyn Error>> {
    let identity = common::Identity::new()?;
    let crypto = quinn::crypto::rustls::QuicServerConfig::try_from(identity.server)?;
    let server = quinn::Endpoint::server(quinn::ServerConfig::with_crypto(Arc::new(crypto)), ANY.into())?;
    let address = server.local_addr()?;
    let serving = tokio::spawn(async move {
        let connection = server.accept().await.expect("the endpoint is open").await.expect("a connection");
        let transport = h3_quinn::Connection::new(connection);
        serve_connection(transport, router(), std::future::pending(), Duration::ZERO).await
    });

    let endpoint = quinn::Endpoint::client(ANY.into())?;
    let crypto = quinn::crypto::rustls::QuicClientConfig::try_from(identity.client)?;
    let config = quinn::ClientConfig::new(Arc::new(crypto));
    let connection = endpoint.connect_with(config, address, "localhost")?.await?;
    let rate = rate(Client::new(h3_quinn::Connection::new(connection)).await?, path, time).await?;
    serving.await??;
    Ok(rate)
}

/// Requests that `client` gets answered per second, each with the whole body.
async fn rate<T: Transport>(
    client: Client<T>,
    (path, size): (&'static str, usize),
    time: Duration,
) -> Result<f64, Box<dyn Error>> {
    let begun = Instant::now();
    let workers = (0..CONCURRENT).map(|_| {
        let mut client = client.clone();
        tokio::spawn(async move {
            let mut count = 0_u32;
            while begun.elapsed() < time {
                let request = Request::get(format!("https://localhost{path}")).body(Full::<Bytes>::default());
                let response = client.call(request.expect("a request")).await?;
                let body = response.into_body().collect().await?.to_bytes();
                assert_eq!(body.len(), size, "a body is not whole");
                count += 1;
            }
            Ok::<_, rc3_adapters::SendError>(count)
        })
    });
    let mut requests = 0;
    for worker in workers.collect::<Vec<_>>() {
        requests += worker.await??;
    }
    Ok(f64::from(requests) / begun.elapsed().as_secs_f64())
}
