//! What a client does: as many operations as it can in a time.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use clap::ValueEnum;
use data_encoding::HEXLOWER;
use rc3_net::{ClientConfig, Connection, Endpoint, VarInt};
use rustls::pki_types::CertificateDer;
use tokio::task::JoinSet;

use super::Result;

/// Longest request that the server answers with itself, in bytes.
pub(crate) const REQUEST_MAX: usize = 4096;

/// Bytes of a request.
const REQUEST: usize = 64;

/// Bytes of a long stream.
const STREAM: usize = 4 << 20;

/// Connections of a client, except where each operation makes one.
const CONNECTIONS: usize = 4;

/// Time before anything is counted.
const WARM_UP: Duration = Duration::from_millis(300);

/// A kind of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Load {
    /// A new connection with a full handshake and one exchange.
    Connections,
    /// A request and an answer of 64 bytes on a connection that exists.
    Exchanges,
    /// A stream of 4 MiB to the server.
    Bulk,
}

impl Load {
    pub(crate) const ALL: [Self; 3] = [Self::Connections, Self::Exchanges, Self::Bulk];

    /// The name on the command line and in the table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Exchanges => "exchanges",
            Self::Bulk => "bulk",
        }
    }

    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Connections => "connections/s",
            Self::Exchanges => "exchanges/s",
            Self::Bulk => "Gbit/s",
        }
    }

    /// What one operation counts for in [`Self::unit`].
    fn worth(self) -> f64 {
        match self {
            Self::Connections | Self::Exchanges => 1.0,
            Self::Bulk => STREAM as f64 * 8e-9,
        }
    }

    /// Puts `parallel` operations at a time on the server. Prints a line when it begins to count, and the rate at the
    /// end.
    #[tokio::main]
    pub(crate) async fn run(
        self,
        address: SocketAddr,
        certificate: &str,
        parallel: usize,
        time: Duration,
    ) -> Result<()> {
        let config = client_config(certificate)?;
        let mut endpoints = Vec::new();
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            let mut endpoint = Endpoint::client("127.0.0.1:0".parse()?)?;
            endpoint.set_default_client_config(config.clone());
            connections.push(endpoint.connect(address, "localhost")?.await?);
            endpoints.push(endpoint);
        }
        let (done, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let mut tasks = JoinSet::new();
        for nth in 0..if self == Self::Bulk { CONNECTIONS } else { parallel } {
            let (done, over) = (done.clone(), over.clone());
            let (endpoint, connection) =
                (endpoints[nth % CONNECTIONS].clone(), connections[nth % CONNECTIONS].clone());
            tasks.spawn(async move {
                while !over.load(Relaxed) {
                    self.operate(&endpoint, &connection, address).await?;
                    done.fetch_add(1, Relaxed);
                }
                Ok(())
            });
        }
        tokio::time::sleep(WARM_UP).await;
        let (before, begun) = (done.load(Relaxed), Instant::now());
        println!("begun");
        tokio::time::sleep(time).await;
        let rate = (done.load(Relaxed) - before) as f64 / begun.elapsed().as_secs_f64();
        println!("{}", rate * self.worth());
        over.store(true, Relaxed);
        while let Some(ended) = tasks.join_next().await {
            let ended: Result<()> = ended?;
            ended?;
        }
        Ok(())
    }

    async fn operate(self, endpoint: &Endpoint, connection: &Connection, address: SocketAddr) -> Result<()> {
        match self {
            Self::Connections => {
                let connection = endpoint.connect(address, "localhost")?.await?;
                exchange(&connection, REQUEST).await?;
                connection.close(VarInt::from_u32(0), b"");
                Ok(())
            }
            Self::Exchanges => exchange(connection, REQUEST).await,
            Self::Bulk => exchange(connection, STREAM).await,
        }
    }
}

async fn exchange(connection: &Connection, bytes: usize) -> Result<()> {
    let (mut send, mut recv) = connection.open_bi().await?;
    send.write_all(&vec![7; bytes]).await?;
    send.finish()?;
    let answer = recv.read_to_end(REQUEST_MAX).await?;
    let expected = if bytes <= REQUEST_MAX { bytes } else { 0 };
    if answer.len() == expected { Ok(()) } else { Err("another answer than expected".into()) }
}

/// A client that trusts only this certificate and makes full handshakes.
fn client_config(certificate: &str) -> Result<ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from(HEXLOWER.decode(certificate.as_bytes())?))?;
    let mut crypto = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    crypto.alpn_protocols = vec![b"workers".to_vec()];
    crypto.resumption = rustls::client::Resumption::disabled();
    Ok(ClientConfig::new(Arc::new(crypto)))
}
