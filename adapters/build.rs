//! The gRPC service of the example and the test, in place of a file for protoc.

use tonic_build::manual::{Builder, Method, Service};

fn main() {
    let method = |name: &str, route: &str| {
        Method::builder()
            .name(name)
            .route_name(route)
            .input_type("crate::numbers::Number")
            .output_type("crate::numbers::Number")
            .codec_path("tonic_prost::ProstCodec")
    };
    let numbers = Service::builder()
        .name("Numbers")
        .package("rc3")
        .method(method("square", "Square").build())
        .method(method("count", "Count").server_streaming().build())
        .build();
    Builder::new().build_transport(false).compile(&[numbers]);
    println!("cargo::rerun-if-changed=build.rs");
}
