# Package and NixOS module, built from the repository that holds this file:
#
#     nix run 'git+file:///path/to/overdue?dir=packaging/nix' -- serve
{
  description = "Notifies people when a scheduled job did not report";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" "armv7l-linux" "x86_64-darwin" "aarch64-darwin" ];
      each = make: nixpkgs.lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});
    in
    {
      packages = each (pkgs: { default = pkgs.callPackage ./package.nix { }; });
      nixosModules.default = { pkgs, ... }: {
        imports = [ ./module.nix ];
        services.overdue.package = pkgs.lib.mkDefault self.packages.${pkgs.stdenv.hostPlatform.system}.default;
      };
    };
}
