//! Client and server over `super::quic`, which is rc3-net or quinn: both have the same names.

use std::{
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    sync::{Arc, atomic::Ordering::Relaxed},
};

use bytes::{Buf, Bytes};
use h3::server::RequestStream;
use tokio::task::JoinSet;

use super::{http3, quic, transport};
use crate::job::{Job, Result, initial_suite, path_of};

use quic::crypto::rustls::{HandshakeData, QuicClientConfig, QuicServerConfig};

/// Longest request, in bytes.
const REQUEST_MAX: usize = 4096;
/// After so many bytes of an answer keys are updated and clients move.
const EARLY: usize = 100_000;

/// Transport settings for a case.
fn settings(job: &Job) -> Result<quic::TransportConfig> {
    let mut settings = transport()?;
    if job.case == "zerortt" {
        // The runner counts all bytes in 1-RTT packets; probes of longer packets are most of them.
        settings.mtu_discovery_config(None);
    }
    Ok(settings)
}

/// A server that listens.
pub(crate) fn listen(job: &Job) -> Result<quic::Endpoint> {
    let tls = QuicServerConfig::with_initial(Arc::new(job.server_tls()?), initial_suite())?;
    let mut config = quic::ServerConfig::with_crypto(Arc::new(tls));
    config.transport_config(Arc::new(settings(job)?));
    if let Some(SocketAddr::V4(address)) = job.preferred {
        config.preferred_address_v4(Some(address));
    }
    Ok(quic::Endpoint::server(config, job.listen)?)
}

/// Serves files until the endpoint is closed.
pub(crate) async fn serve(endpoint: quic::Endpoint, job: Arc<Job>) {
    while let Some(incoming) = endpoint.accept().await {
        if job.case == "retry" && !incoming.remote_address_validated() {
            // What has no valid token is asked for one.
            if incoming.retry().is_ok() {
                job.seen.retries.fetch_add(1, Relaxed);
            }
            continue;
        }
        let job = job.clone();
        tokio::spawn(async move {
            if let Err(error) = answer_all(incoming, job).await {
                eprintln!("connection: {error}");
            }
        });
    }
}

async fn answer_all(incoming: quic::Incoming, job: Arc<Job>) -> Result<()> {
    let mut connecting = incoming.accept()?;
    let data = connecting.handshake_data().await?;
    let protocol = data.downcast::<HandshakeData>().ok().and_then(|data| data.protocol);
    // Requests in 0-RTT are answered at once.
    let (connection, _) = connecting.into_0rtt().map_err(|_| "servers can always send early")?;
    if protocol.as_deref() == Some(rc3_h3::ALPN) {
        return answer_http3(connection, job).await;
    }
    loop {
        let (mut tx, mut rx) = match connection.accept_bi().await {
            Ok(streams) => streams,
            Err(quic::ConnectionError::ApplicationClosed(_)) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let job = job.clone();
        tokio::spawn(async move {
            let request = String::from_utf8(rx.read_to_end(REQUEST_MAX).await?)?;
            let path = request.trim_end().strip_prefix("GET ").ok_or("not a GET")?;
            match job.read(path) {
                Ok(content) => tx.write_all(&content).await?,
                Err(_) => tx.reset(1_u32.into())?,
            }
            // A reset stream has ended already.
            let _ = tx.finish();
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
        });
    }
}

async fn answer_http3(connection: quic::Connection, job: Arc<Job>) -> Result<()> {
    let mut http = h3::server::Connection::new(http3::Connection::new(connection)).await?;
    while let Ok(Some(resolver)) = http.accept().await {
        let job = job.clone();
        tokio::spawn(async move {
            let Ok((request, stream)) = resolver.resolve_request().await else { return };
            if let Err(error) = answer(request, stream, &job).await {
                eprintln!("request: {error}");
            }
        });
    }
    Ok(())
}

async fn answer(
    request: http::Request<()>,
    mut stream: RequestStream<http3::BidiStream<Bytes>, Bytes>,
    job: &Job,
) -> Result<()> {
    match job.read(request.uri().path()) {
        Ok(content) => {
            stream.send_response(http::Response::new(())).await?;
            stream.send_data(content.into()).await?;
        }
        Err(_) => stream.send_response(http::Response::builder().status(404).body(())?).await?,
    }
    Ok(stream.finish().await?)
}

/// A client's endpoint and what it connects with.
struct Fetcher {
    endpoint: quic::Endpoint,
    config: quic::ClientConfig,
    name: String,
    address: SocketAddr,
    job: Arc<Job>,
}

/// Fetches all files.
pub(crate) async fn fetch(job: Job) -> Result<()> {
    let tls = QuicClientConfig::with_initial(Arc::new(job.client_tls()?), initial_suite())?;
    let mut config = quic::ClientConfig::new(Arc::new(tls));
    config.transport_config(Arc::new(settings(&job)?));
    let (name, address) = job.server()?;
    let endpoint = quic::Endpoint::client((Ipv4Addr::UNSPECIFIED, 0).into())?;
    let fetcher = Fetcher { endpoint, config, name, address, job: Arc::new(job) };
    let job = &fetcher.job;
    match job.case.as_str() {
        "multiconnect" => {
            for url in &job.requests {
                fetcher.all(std::slice::from_ref(url), false).await?;
            }
        }
        "resumption" | "zerortt" => {
            let (first, rest) = job.requests.split_at(1);
            fetcher.all(first, false).await?;
            fetcher.all(rest, job.case == "zerortt").await?;
        }
        _ => fetcher.all(&job.requests, false).await?,
    }
    fetcher.endpoint.wait_idle().await;
    Ok(())
}

impl Fetcher {
    /// Fetches files over a new connection, all at once.
    async fn all(&self, urls: &[String], is_early: bool) -> Result<()> {
        let connecting = self.endpoint.connect_with(self.config.clone(), self.address, &self.name)?;
        let (connection, early) = if is_early {
            let early = connecting.into_0rtt().map_err(|_| "the server gave no ticket for 0-RTT")?;
            (early.0, Some(early.1))
        } else {
            (connecting.await?, None)
        };
        if self.job.is_http3 {
            self.all_http3(&connection, urls).await?;
        } else {
            let mut fetching = JoinSet::new();
            for url in urls {
                let (streams, early) = (connection.open_bi().await?, self.early(&connection));
                fetching.spawn(get(streams, url.clone(), self.job.clone(), early));
            }
            while let Some(fetched) = fetching.join_next().await {
                fetched??;
            }
        }
        if let Some(accepted) = early {
            if !accepted.await {
                return Err("the server refused 0-RTT".into());
            }
            self.job.seen.early.fetch_add(1, Relaxed);
        }
        connection.close(0_u32.into(), b"");
        Ok(())
    }

    async fn all_http3(&self, connection: &quic::Connection, urls: &[String]) -> Result<()> {
        let (mut driver, mut http) = h3::client::new(http3::Connection::new(connection.clone())).await?;
        let driving = tokio::spawn(async move { driver.wait_idle().await });
        let mut fetching = JoinSet::new();
        for url in urls {
            let mut stream = http.send_request(http::Request::get(url).body(())?).await?;
            let (url, job, mut early) = (url.clone(), self.job.clone(), self.early(connection));
            fetching.spawn(async move {
                stream.finish().await?;
                let status = stream.recv_response().await?.status();
                let mut content = Vec::new();
                while let Some(mut piece) = stream.recv_data().await? {
                    content.extend_from_slice(&piece.copy_to_bytes(piece.remaining()));
                    early.after(content.len())?;
                }
                if status != 200 {
                    return Err(format!("{url}: {status}").into());
                }
                job.save(&url, &content)
            });
        }
        while let Some(fetched) = fetching.join_next().await {
            fetched??;
        }
        // The last sender closes the connection.
        drop(http);
        driving.await?;
        Ok(())
    }

    fn early(&self, connection: &quic::Connection) -> Early {
        Early {
            connection: connection.clone(),
            endpoint: self.endpoint.clone(),
            job: self.job.clone(),
            done: false,
        }
    }
}

async fn get(
    (mut tx, mut rx): (quic::SendStream, quic::RecvStream),
    url: String,
    job: Arc<Job>,
    mut early: Early,
) -> Result<()> {
    tx.write_all(format!("GET {}\r\n", path_of(&url)?).as_bytes()).await?;
    tx.finish()?;
    let mut content = Vec::new();
    while let Some(chunk) = rx.read_chunk(usize::MAX, true).await? {
        content.extend_from_slice(&chunk.bytes);
        early.after(content.len())?;
    }
    job.save(&url, &content)
}

/// What some cases do early in a transfer, once.
struct Early {
    connection: quic::Connection,
    endpoint: quic::Endpoint,
    job: Arc<Job>,
    done: bool,
}

impl Early {
    fn after(&mut self, bytes: usize) -> Result<()> {
        if self.done || bytes < EARLY {
            return Ok(());
        }
        self.done = true;
        match self.job.case.as_str() {
            "keyupdate" => {
                self.connection.force_key_update();
                self.job.seen.updates.fetch_add(1, Relaxed);
            }
            "connectionmigration" => self.endpoint.rebind(UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?)?,
            _ => {}
        }
        Ok(())
    }
}
