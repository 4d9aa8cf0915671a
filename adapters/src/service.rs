//! What answers requests.

use bytes::Bytes;
use http::{Request, Response};
use tower_service::Service;

use crate::{BoxError, body::Body};

/// A tower service for requests with a [`Body`]: an axum `Router`, a server that tonic generates, or any
/// that fits.
pub trait HttpService: Clone + Send + 'static
where
    Self: Service<
            Request<Body>,
            Response = Response<Self::ResponseBody>,
            Error: Into<BoxError> + Send,
            Future: Send,
        >,
{
    /// The body of its responses.
    type ResponseBody: http_body::Body<Data = Bytes, Error: Into<BoxError> + Send> + Send + 'static;
}

impl<S, B> HttpService for S
where
    S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError> + Send, Future: Send>
        + Clone
        + Send
        + 'static,
    B: http_body::Body<Data = Bytes, Error: Into<BoxError> + Send> + Send + 'static,
{
    type ResponseBody = B;
}
