// Configuration of VitePress, which renders docs as a static site. The Makefile sets the environment.
import { copyFileSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { defineConfig } from 'vitepress'
import { anchor, navigation, toRepository, verbatim } from './markdown.mjs'
import { checkSite } from './check.mjs'

const root = path.resolve(import.meta.dirname, '../../..')
const docs = path.join(root, 'docs')
const repository = process.env.DOCS_REPOSITORY || 'https://github.com/example/xdsrelay'
const base = process.env.DOCS_BASE || '/'
const version = process.env.DOCS_VERSION || 'dev'

// link returns the URL of a file of the repository that is not a page of the site.
const link = (file, isFolder) => `${repository}/${isFolder ? 'tree' : 'blob'}/HEAD/${file}`

export default defineConfig({
  title: 'xdsrelay',
  description: 'A relay tier between your xDS control plane and thousands of Envoy and gRPC clients',
  lang: 'en-US',
  base,
  srcDir: docs,
  outDir: path.join(root, 'bin/docs'),
  cacheDir: path.join(root, '.ci/site/node_modules/.cache'),
  metaChunk: true,
  // The tables of the reference need more room than the theme gives to prose.
  head: [['style', {}, '.VPDoc .container, .VPDoc .content .content-container { max-width: none !important }']],
  vite: {
    // The pages import Vue, and no folder above them has it: Node.js resolves it from the folder of this file.
    plugins: [{
      name: 'vue-for-pages',
      enforce: 'pre',
      resolveId: (id, _, { ssr }) => (ssr && /^vue($|\/)/.test(id) ? { id, external: true } : null),
    }],
    build: { chunkSizeWarningLimit: 2000 }, // the index for the search
  },
  markdown: {
    anchor: { slugify: anchor },
    // GitHub does not have these extensions: what they match is plain text there.
    attrs: { disable: true },
    config(md) {
      md.disable('emoji')
      md.linkify.set({ fuzzyLink: false, fuzzyEmail: false })
      md.use(verbatim)
      md.use(toRepository, { root, docs, link })
    },
  },
  themeConfig: {
    nav: [{ text: version, link: link('CHANGELOG.md', false) }],
    sidebar: navigation(readFileSync(path.join(docs, 'index.md'), 'utf8'), link),
    outline: { level: [2, 3] },
    search: { provider: 'local' },
    socialLinks: [{ icon: 'github', link: repository }],
  },
  buildEnd({ outDir }) {
    copyFileSync(path.join(docs, 'reference/openapi.yaml'), path.join(outDir, 'reference/openapi.yaml'))
    checkSite(outDir, base)
  },
})
