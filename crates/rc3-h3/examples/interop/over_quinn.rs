//! quinn, as a control: the same program.

pub(crate) use h3_quinn as http3;
pub(crate) use quinn as quic;

#[path = "endpoint.rs"]
#[allow(clippy::duplicate_mod, reason = "the same over quinn")]
pub(crate) mod endpoint;

/// Default settings.
fn transport() -> std::io::Result<quic::TransportConfig> {
    Ok(quic::TransportConfig::default())
}
