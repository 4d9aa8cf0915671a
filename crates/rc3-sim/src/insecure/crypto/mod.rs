//! Minimal implementation of quinn-proto's cryptography interface: see [`crate::insecure`].

mod keys;
mod message;
mod session;

use std::{io::Cursor, sync::Arc};

use quinn_proto::{
    self as quic, ConnectError, ConnectionId, Side,
    crypto::{self, Keys, UnsupportedVersion},
    transport_parameters::TransportParameters,
};

pub(super) use self::keys::TokenKey;
use self::session::CryptoSession;

/// QUIC v1, the only version simulated.
const VERSION: u32 = 1;

/// The shared settings of a client's or a server's sessions.
pub(super) struct CryptoSettings {
    /// ALPN names, the preferred first.
    offer: Vec<Vec<u8>>,
}

impl CryptoSettings {
    pub(super) fn new(offer: Vec<Vec<u8>>) -> Self {
        Self { offer }
    }
}

impl crypto::ClientConfig for CryptoSettings {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn crypto::Session>, ConnectError> {
        if version != VERSION {
            return Err(ConnectError::UnsupportedVersion);
        }
        Ok(Box::new(CryptoSession::new(Side::Client, self, server_name, params)))
    }
}

impl crypto::ServerConfig for CryptoSettings {
    fn initial_keys(&self, version: u32, dst_cid: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        if version != VERSION {
            return Err(UnsupportedVersion);
        }
        Ok(keys::initial(dst_cid, Side::Server))
    }

    fn retry_tag(&self, _version: u32, orig_dst_cid: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        keys::retry_tag(orig_dst_cid, packet)
    }

    fn start_session(
        self: Arc<Self>,
        _version: u32,
        params: &TransportParameters,
    ) -> Box<dyn crypto::Session> {
        Box::new(CryptoSession::new(Side::Server, self, "", params))
    }
}

fn write_params(params: &TransportParameters) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(128);
    params.write(&mut bytes);
    bytes
}

/// `side` is that of the reader.
fn read_params(side: Side, bytes: &[u8]) -> Result<TransportParameters, quic::TransportError> {
    Ok(TransportParameters::read(side, &mut Cursor::new(bytes))?)
}
