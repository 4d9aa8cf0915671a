//! A client of HTTP/0.9 over rc3.
//!
//! Run it with `cargo run -p rc3-net --example client -- ca.der localhost:4433/Cargo.toml` while the example
//! `server` runs.

use std::{
    env,
    error::Error,
    io::{self, Write},
    sync::Arc,
    time::Instant,
};

use rc3_net::{
    ClientConfig, Endpoint,
    crypto::{crypto_provider, rustls::QuicClientConfig},
    key_log,
    rustls::{self, pki_types::CertificateDer},
};
use tokio::{fs, net::lookup_host};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let (Some(certificate), Some(url)) = (arguments.next(), arguments.next()) else {
        return Err("usage: client CERTIFICATE HOST:PORT/PATH".into());
    };
    let (authority, path) = url.split_once('/').ok_or("the address has no path")?;
    let (host, _) = authority.rsplit_once(':').ok_or("the address has no port")?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    // The server of the example listens on IPv4.
    let addresses: Vec<_> = lookup_host(authority).await?.collect();
    let ipv4 = addresses.iter().find(|address| address.is_ipv4());
    let remote = *ipv4.or_else(|| addresses.first()).ok_or("the host has no address")?;

    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from(fs::read(certificate).await?))?;
    let mut crypto = rustls::ClientConfig::builder_with_provider(crypto_provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    crypto.alpn_protocols = vec![b"hq-29".to_vec()];
    crypto.key_log = key_log();

    let mut endpoint = Endpoint::client("[::]:0".parse()?)?;
    endpoint.set_default_client_config(ClientConfig::new(Arc::new(QuicClientConfig::try_from(crypto)?)));

    let start = Instant::now();
    let connection = endpoint.connect(remote, host)?.await?;
    eprintln!("connected to {remote} after {:?}", start.elapsed());
    let (mut send, mut recv) = connection.open_bi().await?;
    send.write_all(format!("GET /{path}\r\n").as_bytes()).await?;
    send.finish()?;
    let response = recv.read_to_end(usize::MAX).await?;
    let by_rlp: u64 = connection.stats().received.rlp_bytes.iter().sum();
    eprintln!("{} bytes after {:?}, {by_rlp} of them by RLP", response.len(), start.elapsed());
    io::stdout().write_all(&response)?;

    connection.close(0_u32.into(), b"done");
    // Gives the server a fair chance to receive the close.
    endpoint.wait_idle().await;
    Ok(())
}
