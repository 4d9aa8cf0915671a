//! `rc3-peers interop`: s2n-quic as an endpoint of quic-interop-runner, which sets the environment. HTTP/0.9 only.

use std::{env, fs, path::Path};

use bytes::Bytes;
use s2n_quic::{
    Client, Connection, Server,
    client::Connect,
    provider::{
        endpoint_limits::{ConnectionAttempt, Limiter, Outcome},
        tls::default as tls,
    },
    stream::BidirectionalStream,
};
use tokio::{io::AsyncReadExt, task::JoinSet};

use crate::Result;

const HQ: [&str; 1] = ["hq-interop"];
/// What the runner expects for a case that an endpoint does not have.
const UNSUPPORTED: i32 = 127;

/// Sends a Retry to clients that are not validated, if it is asked to.
struct Retry(bool);

impl Limiter for Retry {
    fn on_connection_attempt(&mut self, _: &ConnectionAttempt<'_>) -> Outcome {
        if self.0 { Outcome::retry() } else { Outcome::allow() }
    }
}

#[tokio::main]
pub(crate) async fn run() -> Result<()> {
    let case = env::var("TESTCASE")?;
    if !["handshake", "transfer", "retry", "multiconnect", "ecn"].contains(&case.as_str()) {
        std::process::exit(UNSUPPORTED);
    }
    if env::var("ROLE")? == "server" {
        serve(case == "retry").await
    } else {
        fetch(case == "multiconnect").await
    }
}

async fn serve(retry: bool) -> Result<()> {
    let tls = tls::Server::builder()
        .with_certificate(Path::new("/certs/cert.pem"), Path::new("/certs/priv.key"))?
        .with_application_protocols(HQ.iter())?
        .build()?;
    let mut server = Server::builder()
        .with_tls(tls)?
        .with_io("0.0.0.0:443")?
        .with_endpoint_limits(Retry(retry))?
        .start()?;
    while let Some(mut connection) = server.accept().await {
        tokio::spawn(async move {
            while let Ok(Some(stream)) = connection.accept_bidirectional_stream().await {
                tokio::spawn(answer(stream));
            }
        });
    }
    Ok(())
}

async fn answer(mut stream: BidirectionalStream) -> Result<()> {
    let mut request = String::new();
    stream.read_to_string(&mut request).await?;
    let name = request
        .trim_end()
        .strip_prefix("GET /")
        .filter(|name| !name.contains('/'))
        .ok_or("no GET of a file")?;
    stream.send(Bytes::from(fs::read(Path::new("/www").join(name))?)).await?;
    Ok(stream.finish()?)
}

async fn fetch(each: bool) -> Result<()> {
    let tls = tls::Client::builder()
        .with_certificate(Path::new("/certs/ca.pem"))?
        .with_application_protocols(HQ.iter())?
        .build()?;
    let mut client = Client::builder().with_tls(tls)?.with_io("0.0.0.0:0")?.start()?;
    let requests = env::var("REQUESTS")?;
    let urls: Vec<&str> = requests.split_whitespace().collect();
    if urls.is_empty() {
        return Err("REQUESTS names no URL".into());
    }
    for urls in urls.chunks(if each { 1 } else { urls.len() }) {
        let (server, _) =
            urls[0].strip_prefix("https://").and_then(|rest| rest.split_once('/')).ok_or("no URL")?;
        let address = tokio::net::lookup_host(server).await?.next().ok_or("no address")?;
        let name = server.split(':').next().unwrap_or_default();
        let mut connection = client.connect(Connect::new(address).with_server_name(name)).await?;
        connection.keep_alive(true)?;
        get_all(&mut connection, urls).await?;
        connection.close(0_u32.into());
    }
    client.wait_idle().await.map_err(Into::into)
}

async fn get_all(connection: &mut Connection, urls: &[&str]) -> Result<()> {
    let mut getting = JoinSet::new();
    for url in urls {
        let mut stream = connection.open_bidirectional_stream().await?;
        let name = url.rsplit('/').next().unwrap_or_default().to_owned();
        getting.spawn(async move {
            stream.send(Bytes::from(format!("GET /{name}\r\n"))).await?;
            stream.finish()?;
            let mut content = Vec::new();
            stream.read_to_end(&mut content).await?;
            fs::write(Path::new("/downloads").join(&name), content)?;
            Result::Ok(())
        });
    }
    while let Some(got) = getting.join_next().await {
        got??;
    }
    Ok(())
}
