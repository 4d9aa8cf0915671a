//! The server: answers each request with itself, and reads long streams.

use std::sync::Arc;

use data_encoding::HEXLOWER;
use rc3_net::{Connection, Endpoint, EndpointOptions, RecvStream, SendStream, ServerConfig};
use rustls::pki_types::PrivateKeyDer;

use super::{Result, load::REQUEST_MAX};

/// Serves on `threads` threads until killed. Prints its address and its certificate.
pub(crate) fn serve(workers: usize, threads: usize) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    // Not on this thread, which would be one more.
    runtime.block_on(runtime.spawn(accept(workers)))?
}

async fn accept(workers: usize) -> Result<()> {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let key = PrivateKeyDer::Pkcs8(certified.signing_key.serialize_der().into());
    let mut crypto = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)?;
    crypto.alpn_protocols = vec![b"workers".to_vec()];
    let config = ServerConfig::with_crypto(Arc::new(crypto));
    let options = EndpointOptions { workers, ..EndpointOptions::default() };
    let endpoint = Endpoint::bind(options, Some(config), "127.0.0.1:0".parse()?)?;
    println!("{}\n{}", endpoint.local_addr()?, HEXLOWER.encode(certified.cert.der()));
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            if let Ok(connection) = incoming.await {
                serve_connection(connection).await;
            }
        });
    }
    Ok(())
}

async fn serve_connection(connection: Connection) {
    while let Ok((send, recv)) = connection.accept_bi().await {
        tokio::spawn(async move {
            // The client notices.
            let _ = answer(send, recv).await;
        });
    }
}

async fn answer(mut send: SendStream, mut recv: RecvStream) -> Result<()> {
    let (mut echo, mut total) = (Vec::new(), 0);
    while let Some(chunk) = recv.read_chunk(usize::MAX, true).await? {
        total += chunk.bytes.len();
        if total <= REQUEST_MAX {
            echo.push(chunk.bytes);
        }
    }
    if total <= REQUEST_MAX {
        send.write_all_chunks(&mut echo).await?;
    }
    send.finish()?;
    Ok(())
}
