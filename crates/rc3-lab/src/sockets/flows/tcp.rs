//! Flows over kernel TCP with CUBIC, without TLS.

use std::net::SocketAddr;

use socket2::SockRef;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
};

use crate::{Result, flow::Header};

/// What one call hands over.
const BLOCK: usize = 64 * 1024;
/// As the kernel calls it. Where it is none of those that everybody may use, this needs root.
const CUBIC: &[u8] = b"cubic";

/// Receives until killed.
pub(crate) async fn serve(address: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(address).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(async move {
            if let Err(error) = receive(stream).await {
                eprintln!("receiver: {error}");
            }
        });
    }
}

async fn receive(mut stream: TcpStream) -> Result<()> {
    let mut header = [0; Header::LEN];
    stream.read_exact(&mut header).await?;
    let header = Header::decode(&header)?;
    let mut left = header.len.saturating_sub(Header::LEN as u64);
    let mut block = vec![0; BLOCK];
    while left > 0 {
        match stream.read(&mut block).await? {
            0 => return Err("a flow ends too early".into()),
            len => left = left.saturating_sub(len as u64),
        }
    }
    header.arrived();
    Ok(())
}

/// Sends a flow, and waits until the receiver, which has it all, closes the connection.
pub(crate) async fn send(to: SocketAddr, header: &Header) -> Result<()> {
    let socket = TcpSocket::new_v4()?;
    SockRef::from(&socket).set_tcp_congestion(CUBIC)?;
    let mut stream = socket.connect(to).await?;
    let mut block = vec![0; BLOCK];
    block[..Header::LEN].copy_from_slice(&header.encode());
    let mut left = header.len;
    while left > 0 {
        let len = left.min(BLOCK as u64);
        stream.write_all(&block[..len as usize]).await?;
        left -= len;
    }
    stream.shutdown().await?;
    stream.read_to_end(&mut block).await?;
    Ok(())
}
