//! Endpoints that trust each other, and content that reveals loss, duplication and reordering.
#![allow(dead_code, reason = "no test file uses all of it")]

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use rc3_net::{
    ClientConfig, Connection, Endpoint, EndpointOptions, RecvStream, SendStream, ServerConfig,
    TransportConfig, VarInt,
};

pub(crate) use rc3_sim::identity::SERVER_NAME;

/// Longer than any step takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Configuration of both sides; `change` adapts the default transport.
pub(crate) fn configs(change: impl Fn(&mut TransportConfig)) -> (ClientConfig, ServerConfig) {
    let (mut client, mut server) = rc3_sim::identity::identity(&["test"]);
    let mut transport = TransportConfig::default();
    change(&mut transport);
    let transport = Arc::new(transport);
    client.transport_config(transport.clone());
    server.transport_config(transport);
    (client, server)
}

/// Client and server on the loopback address `ip`.
pub(crate) fn endpoints(ip: &str, change: impl Fn(&mut TransportConfig)) -> (Endpoint, Endpoint) {
    let (client_config, server_config) = configs(change);
    let any: SocketAddr = format!("{ip}:0").parse().unwrap();
    let server = Endpoint::server(server_config, any).unwrap();
    let mut client = Endpoint::bind(EndpointOptions::default(), None, any).unwrap();
    client.set_default_client_config(client_config);
    (client, server)
}

/// A connection between them, as either sees it.
pub(crate) async fn connect(client: &Endpoint, server: &Endpoint) -> (Connection, Connection) {
    let connecting = client.connect(server.local_addr().unwrap(), SERVER_NAME).unwrap();
    let accepting = async { server.accept().await.unwrap().await.unwrap() };
    let (connected, accepted) = tokio::join!(connecting, accepting);
    (connected.unwrap(), accepted)
}

/// `len` bytes that differ by position and by `seed`.
pub(crate) fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Sends all of `data` and its end.
pub(crate) async fn send(mut stream: SendStream, data: Vec<u8>) {
    stream.write_chunk(data.into()).await.unwrap();
    stream.finish().unwrap();
    assert_eq!(stream.stopped().await, Ok(None), "delivered whole");
}

/// Reads a stream that must carry exactly `expected`.
pub(crate) async fn receive(mut stream: RecvStream, expected: &[u8]) {
    let got = stream.read_to_end(expected.len()).await.unwrap();
    assert!(got == expected, "{} bytes, or others than expected", got.len());
}

pub(crate) fn code(number: u32) -> VarInt {
    VarInt::from_u32(number)
}

/// Runs `test` on several threads, but not forever.
pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, test).await.expect("the test hangs") });
}

/// Runs `test` on one thread: no task of an endpoint gets a turn, and nothing that arrives is read, between calls that
/// need not wait.
pub(crate) fn run_on_one_thread(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, test).await.expect("the test hangs") });
}

/// A key for stateless resets; a test needs no secret.
pub(crate) struct ResetKey;

impl rc3_net::crypto::HmacKey for ResetKey {
    fn sign(&self, data: &[u8], signature_out: &mut [u8]) {
        for (index, out) in signature_out.chunks_mut(8).enumerate() {
            let mut hasher = DefaultHasher::new();
            (index, data).hash(&mut hasher);
            out.copy_from_slice(&hasher.finish().to_be_bytes()[..out.len()]);
        }
    }

    fn signature_len(&self) -> usize {
        32
    }

    fn verify(&self, _: &[u8], _: &[u8]) -> Result<(), rc3_net::crypto::CryptoError> {
        Err(rc3_net::crypto::CryptoError)
    }
}

/// Answers each request on each connection with the request, as long as peers may come.
pub(crate) async fn echo(endpoint: Endpoint) {
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            let connection = incoming.await.unwrap();
            while let Ok((mut send, mut recv)) = connection.accept_bi().await {
                let request = recv.read_to_end(1 << 20).await.unwrap();
                send.write_all(&request).await.unwrap();
                send.finish().unwrap();
            }
        });
    }
}
