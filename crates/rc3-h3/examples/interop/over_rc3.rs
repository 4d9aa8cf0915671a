//! rc3.

pub(crate) use rc3_h3 as http3;
pub(crate) use rc3_net as quic;

#[path = "endpoint.rs"]
pub(crate) mod endpoint;

/// Default settings, and a qlog where the environment asks for one.
fn transport() -> std::io::Result<quic::TransportConfig> {
    let mut transport = quic::TransportConfig::default();
    transport.qlog(quic::qlog::directory_from_env().map(quic::qlog::directory).transpose()?);
    Ok(transport)
}
