//! s2n-quic.

use std::net::{Ipv4Addr, SocketAddr};

use data_encoding::{BASE64_MIME, HEXLOWER};
use s2n_quic::{Client, Connection, Server, client::Connect};
use tokio::io::AsyncReadExt;

use crate::{BLOCK, HOST, Result, clock};

/// A certificate between these lines is PEM.
const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

#[tokio::main]
pub(crate) async fn serve(address: SocketAddr) -> Result<()> {
    let certified = rcgen::generate_simple_self_signed([HOST.to_owned()])?;
    let (certificate, key) = (certified.cert.pem(), certified.signing_key.serialize_pem());
    let tls = (certificate.as_str(), key.as_str());
    let mut server = Server::builder().with_tls(tls)?.with_io(address)?.start()?;
    println!("{}", HEXLOWER.encode(certified.cert.der()));
    while let Some(connection) = server.accept().await {
        tokio::spawn(async move {
            if let Err(error) = receive(connection).await {
                eprintln!("receiver: {error}");
            }
        });
    }
    Ok(())
}

async fn receive(mut connection: Connection) -> Result<()> {
    let before = clock::cpu();
    while let Some(mut stream) = connection.accept_bidirectional_stream().await? {
        // The end of the stream may come later than its last byte.
        let mut last = clock::now();
        while stream.receive().await?.is_some() {
            last = clock::now();
        }
        let answer = format!("{last} {}", clock::cpu() - before);
        stream.send(answer.into()).await?;
        stream.finish()?;
    }
    Ok(())
}

#[tokio::main]
pub(crate) async fn time(address: SocketAddr, certificate: &str, bytes: u64, connections: u32) -> Result<()> {
    let der = HEXLOWER.decode(certificate.as_bytes())?;
    let pem = format!("{BEGIN}\n{}{END}\n", BASE64_MIME.encode(&der).replace('\r', ""));
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let client = Client::builder().with_tls(pem.as_str())?.with_io(any)?.start()?;
    let block = bytes::Bytes::from(vec![7; BLOCK]);
    for _ in 0..connections {
        let (begun, before) = (clock::now(), clock::cpu());
        let mut connection = client.connect(Connect::new(address).with_server_name(HOST)).await?;
        let opened = clock::now();
        let mut stream = connection.open_bidirectional_stream().await?;
        let mut left = bytes;
        while left > 0 {
            let len = left.min(BLOCK as u64);
            stream.send(block.slice(..len as usize)).await?;
            left -= len;
        }
        stream.finish()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        clock::report(begun, opened, clock::cpu() - before, &answer)?;
        connection.close(0_u32.into());
    }
    Ok(())
}
