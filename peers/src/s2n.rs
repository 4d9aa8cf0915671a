//! s2n-quic.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Instant,
};

use bytes::Bytes;
use s2n_quic::{
    Client, Connection, Server, client::Connect, provider::io::Default as Io, stream::BidirectionalStream,
};
use serde_json::json;
use tokio::io::AsyncReadExt;

use crate::{BLOCK, ECHO, ECHO_MAX, Exchange, HOST, Result, Target, clock};

/// Separates the lines of a certificate, which is printed on one.
const LINES: &str = "|";

#[tokio::main]
pub(crate) async fn serve(target: Target) -> Result<()> {
    let certified = rcgen::generate_simple_self_signed([HOST.to_owned()])?;
    let (certificate, key) = (certified.cert.pem(), certified.signing_key.serialize_pem());
    let tls = (certificate.as_str(), key.as_str());
    let mut server =
        Server::builder().with_tls(tls)?.with_io(io(target.address, target.setup.mtu)?)?.start()?;
    println!("{}", certificate.trim().replace('\n', LINES));
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
    while let Some(stream) = connection.accept_bidirectional_stream().await? {
        answer(stream, before).await?;
    }
    Ok(())
}

async fn answer(mut stream: BidirectionalStream, before: f64) -> Result<()> {
    let (mut kind, mut echo, mut total) = (None, Vec::new(), 0);
    // The end of the stream may come later than its last byte.
    let mut last = clock::now();
    while let Some(chunk) = stream.receive().await? {
        last = clock::now();
        if *kind.get_or_insert_with(|| chunk.first().copied()) == Some(ECHO) {
            total += chunk.len();
            if total > ECHO_MAX {
                return Err("too long to be sent back".into());
            }
            echo.push(chunk);
        }
    }
    if echo.is_empty() {
        stream.send(serde_json::to_vec(&(last, clock::cpu() - before))?.into()).await?;
    } else {
        stream.send_vectored(&mut echo).await?;
    }
    Ok(stream.finish()?)
}

#[tokio::main]
pub(crate) async fn time(target: Target, bytes: u64, connections: u32) -> Result<()> {
    let client = client(&target)?;
    let block = Bytes::from(vec![7; BLOCK]);
    for _ in 0..connections {
        let (begun, before) = (clock::now(), clock::cpu());
        let mut connection = connect(&client, target.address).await?;
        let opened = clock::now();
        let (last, receiver_cpu) = upload(&mut connection, bytes, &block).await?;
        let seconds = |from: u64, until: u64| until.saturating_sub(from) as f64 / 1e9;
        let (connect, flow) = (seconds(begun, opened), seconds(opened, last));
        let sender_cpu = clock::cpu() - before;
        println!(
            "{}",
            json!({ "begun": begun, "connect": connect, "flow": flow, "sender_cpu": sender_cpu, "receiver_cpu": receiver_cpu })
        );
        connection.close(0_u32.into());
    }
    Ok(())
}

#[tokio::main]
pub(crate) async fn ask(target: Target, exchange: Exchange) -> Result<()> {
    let client = client(&target)?;
    let request = Bytes::from(vec![ECHO; exchange.bytes]);
    let mut connection = None;
    for _ in 0..exchange.count {
        let begun = Instant::now();
        let mut current = match connection.take() {
            Some(connection) => connection,
            None => connect(&client, target.address).await?,
        };
        let mut stream = current.open_bidirectional_stream().await?;
        stream.send(request.clone()).await?;
        stream.finish()?;
        let mut response = Vec::new();
        stream.read_to_end(&mut response).await?;
        if response.len() != exchange.bytes {
            return Err("the response is too short".into());
        }
        print!("{} ", begun.elapsed().as_micros());
        if exchange.new_connections {
            current.close(0_u32.into());
        } else {
            connection = Some(current);
        }
    }
    println!();
    Ok(())
}

fn client(target: &Target) -> Result<Client> {
    let pem = target.certificate.replace(LINES, "\n");
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    Ok(Client::builder().with_tls(pem.as_str())?.with_io(io(any, target.setup.mtu)?)?.start()?)
}

fn io(address: SocketAddr, mtu: Option<u16>) -> Result<Io> {
    let io = Io::builder().with_receive_address(address)?;
    Ok(match mtu {
        Some(mtu) => io.with_max_mtu(mtu)?,
        None => io,
    }
    .build()?)
}

async fn connect(client: &Client, address: SocketAddr) -> Result<Connection> {
    Ok(client.connect(Connect::new(address).with_server_name(HOST)).await?)
}

/// Sends so many bytes and returns when the receiver had the last, and its CPU seconds.
async fn upload(connection: &mut Connection, bytes: u64, block: &Bytes) -> Result<(u64, f64)> {
    let mut stream = connection.open_bidirectional_stream().await?;
    let mut left = bytes;
    while left > 0 {
        let len = left.min(block.len() as u64);
        stream.send(block.slice(..len as usize)).await?;
        left -= len;
    }
    stream.finish()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(serde_json::from_str(&answer)?)
}
