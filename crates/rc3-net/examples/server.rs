//! A server of files by HTTP/0.9 over rc3, and over plain QUIC for other clients.
//!
//! Run it with `cargo run -p rc3-net --example server -- . ca.der`; it writes a new self-signed certificate for
//! `localhost` into the second file. The example `client` fetches from it.

use std::{
    env,
    error::Error,
    net::SocketAddr,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use rc3_net::{
    Connection, ConnectionError, Endpoint, Incoming, RecvStream, SendStream, ServerConfig,
    crypto::{
        crypto_provider,
        rustls::{HandshakeData, QuicServerConfig},
    },
    key_log,
    rustls::{self, pki_types::PrivateKeyDer},
};
use tokio::fs;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let (Some(root), Some(certificate)) = (arguments.next(), arguments.next()) else {
        return Err("usage: server ROOT CERTIFICATE [ADDRESS]".into());
    };
    let listen: SocketAddr = arguments.next().as_deref().unwrap_or("127.0.0.1:4433").parse()?;

    let certified = rcgen::generate_simple_self_signed(["localhost".to_string()])?;
    fs::write(certificate, certified.cert.der()).await?;
    let key = PrivateKeyDer::Pkcs8(certified.signing_key.serialize_der().into());
    let mut crypto = rustls::ServerConfig::builder_with_provider(crypto_provider())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.into()], key)?;
    crypto.alpn_protocols = vec![b"hq-29".to_vec()];
    crypto.key_log = key_log();

    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(crypto)?));
    let transport = Arc::get_mut(&mut config.transport).expect("nobody else has it yet");
    transport.max_concurrent_uni_streams(0_u8.into());

    let endpoint = Endpoint::server(config, listen)?;
    println!("listening on {}", endpoint.local_addr()?);
    let root: Arc<Path> = PathBuf::from(root).into();
    while let Some(incoming) = endpoint.accept().await {
        let root = root.clone();
        tokio::spawn(async move {
            if let Err(error) = serve(incoming, root).await {
                eprintln!("connection failed: {error}");
            }
        });
    }
    Ok(())
}

async fn serve(incoming: Incoming, root: Arc<Path>) -> Result<(), ConnectionError> {
    let connection = incoming.await?;
    println!("{} uses {}", connection.remote_address(), protocol(&connection));
    loop {
        let stream = match connection.accept_bi().await {
            Err(ConnectionError::ApplicationClosed { .. }) => return Ok(()),
            stream => stream?,
        };
        let root = root.clone();
        tokio::spawn(async move {
            if let Err(error) = answer(stream, &root).await {
                eprintln!("request failed: {error}");
            }
        });
    }
}

fn protocol(connection: &Connection) -> String {
    let data = connection.handshake_data().and_then(|data| data.downcast::<HandshakeData>().ok());
    let name = data.and_then(|data| data.protocol).unwrap_or_default();
    let over = if connection.is_rc3() { "rc3" } else { "QUIC" };
    format!("{} over {over}", String::from_utf8_lossy(&name))
}

/// Dropping the stream ends it.
async fn answer((mut send, mut recv): (SendStream, RecvStream), root: &Path) -> Result<(), Box<dyn Error>> {
    let request = recv.read_to_end(64 * 1024).await?;
    println!("{}", request.escape_ascii());
    let content = match requested(root, &request) {
        Some(path) => fs::read(path).await.unwrap_or_else(|error| format!("{error}\n").into_bytes()),
        None => b"not a request for a file in here\n".to_vec(),
    };
    send.write_chunk(content.into()).await?;
    Ok(())
}

/// The requested file; none outside `root`.
fn requested(root: &Path, request: &[u8]) -> Option<PathBuf> {
    let path = std::str::from_utf8(request.strip_prefix(b"GET /")?.strip_suffix(b"\r\n")?).ok()?;
    let inside = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    inside.then(|| root.join(path))
}
