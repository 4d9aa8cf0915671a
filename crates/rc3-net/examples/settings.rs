//! Settings of the protocol and of the marks, and what a transfer with them reports, with rc3-net's types alone.
//!
//! Run it with `cargo run -p rc3-net --example settings`.

mod common;

use std::{error::Error, sync::Arc};

use rc3_net::{
    Endpoint, EndpointOptions, Ladder, Level, Rate, RlpMode, TransportConfig, VarInt,
    marks::{MarkChoice, Marks},
};

const BYTES: usize = 4 << 20;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (client_config, mut server_config) = common::configs()?;
    server_config.transport_config(Arc::new(transport()?));
    // Class selector 1 for low levels, except a code point of its own for the first.
    let marks = Marks::from(MarkChoice::Cs1).with_dscp(Level::FIRST, 10)?;
    let options = EndpointOptions { marks, ..EndpointOptions::default() };
    let server = Endpoint::bind(options, Some(server_config), "127.0.0.1:0".parse()?)?;
    let client = Endpoint::client("127.0.0.1:0".parse()?)?;

    let connecting = client.connect_with(client_config, server.local_addr()?, "localhost")?;
    let accepting = async { server.accept().await.expect("the endpoint is open").await };
    let (near, far) = tokio::try_join!(connecting, accepting)?;
    let mut send = far.open_uni().await?;
    let sending = async {
        send.write_all(&vec![7; BYTES]).await?;
        far.close_gracefully(VarInt::from_u32(0), b"done").await?;
        Ok::<_, Box<dyn Error>>(())
    };
    let receiving = async { Ok(near.accept_uni().await?.read_to_end(BYTES).await?) };
    let ((), received) = tokio::try_join!(sending, receiving)?;
    assert_eq!(received.len(), BYTES);

    let sent = far.stats().sent;
    println!("level 0 (DSCP {}): {} bytes", server.marks().dscp(Level::PRIMARY), sent.primary_bytes);
    for level in (1..=Level::MAX.get()).filter_map(Level::new) {
        let (dscp, packets) = (server.marks().dscp(level), sent.levels[level.index()].packets);
        if packets > 0 {
            println!("level {} (DSCP {dscp}): {packets} packets", level.get());
        }
    }
    Ok(())
}

/// RLP without a check of the path, on three levels, for a card of 10 Gbit/s.
fn transport() -> Result<TransportConfig, Box<dyn Error>> {
    let mut transport = TransportConfig::default();
    transport.rlp(RlpMode::Trust);
    transport.ladder(Ladder::new(&[40, 400, 4_000])?);
    transport.nic_rate(Rate::from_bits_per_second(10_000_000_000));
    Ok(transport)
}
