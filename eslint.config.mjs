// The page's files are put together into one closure (render.SCRIPTS): what one declares at its top, the others use.
import { readFileSync, readdirSync } from "node:fs";
import js from "@eslint/js";
import globals from "globals";

const folder = new URL("src/softkin/report/", import.meta.url);
const declared = readdirSync(folder)
  .filter((name) => name.endsWith(".js"))
  .flatMap((name) => [...readFileSync(new URL(name, folder), "utf8").matchAll(/^(?:async )?(?:function|const|let) (\w+)/gm)].map((hit) => hit[1]));

export default [
  js.configs.recommended,
  {
    files: ["src/softkin/report/*.js"],
    languageOptions: { sourceType: "script", ecmaVersion: 2023, globals: { ...globals.browser, ...Object.fromEntries(declared.map((name) => [name, "writable"])) } },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      "no-redeclare": ["error", { builtinGlobals: false }],
      "no-unused-vars": ["error", { vars: "local", args: "after-used", argsIgnorePattern: "^_|^(answer|label)$" }],
      "no-restricted-properties": ["error", ...["innerHTML", "outerHTML"].map((property) => ({ property, message: "Texts become text nodes." }))],
      "no-restricted-globals": ["error", { name: "eval", message: "The content policy forbids it." }],
      eqeqeq: "error",
      "no-var": "error",
      "prefer-const": "error",
      "no-implicit-globals": "off",
      "no-shadow-restricted-names": "error",
    },
  },
];
