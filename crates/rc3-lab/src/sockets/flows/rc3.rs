//! Flows over rc3: a connection with a full handshake and one stream each.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::Arc,
};

use rc3_net::{ClientConfig, Endpoint, Incoming, ServerConfig, TransportConfig, VarInt};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::{Result, flow::Header};

const NAME: &str = "localhost";
const PROTOCOL: &[u8] = b"flows";
/// What one call hands over.
const BLOCK: usize = 64 * 1024;

/// Receives until killed; writes its certificate to a file.
pub(crate) async fn serve(address: SocketAddr, certificate: &Path) -> Result<()> {
    let certified = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
    let key = PrivateKeyDer::Pkcs8(certified.signing_key.serialize_der().into());
    fs::write(certificate, certified.cert.der())?;
    let mut crypto = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.into()], key)?;
    crypto.alpn_protocols = vec![PROTOCOL.to_vec()];
    let endpoint = Endpoint::server(ServerConfig::with_crypto(Arc::new(crypto)), address)?;
    // The other transport listens as well by now, and whoever waits for this line may begin.
    println!("{}", crate::flow::COLUMNS);
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            if let Err(error) = receive(incoming).await {
                eprintln!("receiver: {error}");
            }
        });
    }
    Ok(())
}

async fn receive(incoming: Incoming) -> Result<()> {
    let connection = incoming.await?;
    let mut stream = connection.accept_uni().await?;
    let mut header = [0; Header::LEN];
    stream.read_exact(&mut header).await?;
    let header = Header::decode(&header)?;
    let mut arrived = Header::LEN as u64;
    while let Some(chunk) = stream.read_chunk(usize::MAX, true).await? {
        arrived += chunk.bytes.len() as u64;
    }
    if arrived != header.len {
        return Err(format!("{arrived} bytes of a flow of {}", header.len).into());
    }
    header.arrived();
    // The sender closes, when it knows.
    connection.closed().await;
    Ok(())
}

/// An endpoint that trusts this certificate.
pub(crate) fn client(certificate: &[u8], transport: Arc<TransportConfig>) -> Result<Endpoint> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from(certificate))?;
    let mut crypto = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    crypto.alpn_protocols = vec![PROTOCOL.to_vec()];
    // Each flow is to be one to a host it has never seen.
    crypto.resumption = rustls::client::Resumption::disabled();
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(transport);
    let mut endpoint = Endpoint::client(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))?;
    endpoint.set_default_client_config(config);
    Ok(endpoint)
}

/// Sends a flow, and waits until all of it is acknowledged. Of one of Kick-Ass it prints in which mode it was.
pub(crate) async fn send(endpoint: &Endpoint, to: SocketAddr, header: &Header) -> Result<()> {
    let connection = endpoint.connect(to, NAME)?.await?;
    let mut stream = connection.open_uni().await?;
    let mut block = vec![0; BLOCK];
    block[..Header::LEN].copy_from_slice(&header.encode());
    let mut left = header.len;
    while left > 0 {
        let len = left.min(BLOCK as u64);
        stream.write_all(&block[..len as usize]).await?;
        left -= len;
    }
    stream.finish()?;
    stream.stopped().await?;
    if let Some(kickass) = connection.stats().kickass {
        header.steered(&kickass);
    }
    connection.close(VarInt::from_u32(0), b"");
    Ok(())
}
