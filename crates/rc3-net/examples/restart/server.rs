//! One instance of the server.

use std::{error::Error, io, net::SocketAddr, path::Path, process};

use rc3_net::{
    ConnectionError, Endpoint, EndpointOptions, Incoming, ServerConfig, rustls::pki_types::PrivateKeyDer,
};
use tokio::{
    fs,
    net::{UnixListener, UnixStream},
};

/// Takes over from the instance that listens at `path`, or is the first.
pub(crate) async fn serve(path: &Path, address: SocketAddr) -> Result<(), Box<dyn Error>> {
    let options = EndpointOptions::default();
    let endpoint = match UnixStream::connect(path).await {
        Ok(from) => Endpoint::take_over(options, Some(config(path).await?), from).await?,
        // Nobody is there.
        Err(_) => Endpoint::bind(options, Some(new_config(path).await?), address)?,
    };
    let mut successors = listen(path).await?;
    println!("{} serves {}", process::id(), endpoint.local_addr()?);
    loop {
        tokio::select! {
            incoming = endpoint.accept() => match incoming {
                Some(incoming) => drop(tokio::spawn(answer(incoming))),
                None => return Ok(()),
            },
            connected = successors.accept() => {
                let (to, _) = connected?;
                let successor = match endpoint.hand_over(to).await {
                    Ok(successor) => successor,
                    Err(error) => {
                        eprintln!("the port stays here: {error}");
                        continue;
                    }
                };
                while let Some(incoming) = endpoint.accept().await {
                    tokio::spawn(answer(incoming));
                }
                tokio::select! {
                    () = endpoint.wait_idle() => return Ok(()),
                    () = successor.lost() => successors = listen(path).await?,
                }
            }
        }
    }
}

/// The last instance may have left its socket there.
async fn listen(path: &Path) -> io::Result<UnixListener> {
    match fs::remove_file(path).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => UnixListener::bind(path),
    }
}

async fn answer(incoming: Incoming) -> Result<(), ConnectionError> {
    let connection = incoming.await?;
    loop {
        let (mut send, mut recv) = connection.accept_bi().await?;
        tokio::spawn(async move {
            let Ok(request) = recv.read_to_end(1 << 20).await else { return };
            // Dropping the stream ends it. A client that has gone by now needs no answer.
            let _ = send.write_all(format!("{}\n", process::id()).as_bytes()).await;
            let _ = send.write_all(&request).await;
        });
    }
}

async fn new_config(path: &Path) -> Result<ServerConfig, Box<dyn Error>> {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_string()])?;
    fs::write(path.with_extension("key"), certified.signing_key.serialize_der()).await?;
    fs::write(path.with_extension("cert"), certified.cert.der()).await?;
    config(path).await
}

async fn config(path: &Path) -> Result<ServerConfig, Box<dyn Error>> {
    let certificate = fs::read(path.with_extension("cert")).await?;
    let key = PrivateKeyDer::Pkcs8(fs::read(path.with_extension("key")).await?.into());
    Ok(ServerConfig::with_single_cert(vec![certificate.into()], key)?)
}
