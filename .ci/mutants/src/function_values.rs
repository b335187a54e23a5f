//! Values that replace the body of a function, by its return type.

use quote::ToTokens;
use syn::{GenericArgument, PathArguments, PathSegment, ReturnType, Type};

const INTEGERS: &[&str] = &[
    "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize",
];

/// The values, as source text. An empty text stands for `return` without a value.
pub fn of(output: &ReturnType) -> Vec<&'static str> {
    let ReturnType::Type(_, output) = output else {
        return vec![""];
    };
    let text = output.to_token_stream().to_string();
    if text == "()" {
        return vec![""];
    }
    let Type::Path(path) = &**output else {
        return Vec::new();
    };
    let Some(last) = path.path.segments.last() else {
        return Vec::new();
    };
    match last.ident.to_string().as_str() {
        "bool" => vec!["true", "false"],
        "Option" => vec!["None"],
        "String" => vec!["String::new()"],
        "Vec" => vec!["Vec::new()"],
        "Result" => of_result(last, &text),
        name if INTEGERS.contains(&name) => vec!["0", "1"],
        _ => Vec::new(),
    }
}

fn of_result(segment: &PathSegment, text: &str) -> Vec<&'static str> {
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else {
        let is_formatting = text.ends_with("fmt :: Result");
        return if is_formatting {
            vec!["Ok(())"]
        } else {
            Vec::new()
        };
    };
    let Some(GenericArgument::Type(success)) = arguments.args.first() else {
        return Vec::new();
    };
    match success.to_token_stream().to_string().as_str() {
        "()" => vec!["Ok(())"],
        "bool" => vec!["Ok(true)", "Ok(false)"],
        _ => Vec::new(),
    }
}
