import eslint from '@eslint/js';
import tseslint from 'typescript-eslint';

const MARKUP = 'Text goes into text nodes; HTML goes through view/sanitize.ts.';

export default tseslint.config(
  { ignores: ['lib/', 'node_modules/', 'src/protocol.ts'] },
  eslint.configs.recommended,
  {
    files: ['src/**/*.ts'],
    extends: [tseslint.configs.strictTypeChecked, tseslint.configs.stylisticTypeChecked],
    languageOptions: {
      parserOptions: { project: './tsconfig.lint.json', tsconfigRootDir: import.meta.dirname }
    },
    rules: {
      'no-console': 'error',
      'no-restricted-properties': [
        'error',
        { property: 'innerHTML', message: MARKUP },
        { property: 'outerHTML', message: MARKUP },
        { property: 'insertAdjacentHTML', message: MARKUP },
        { property: 'createContextualFragment', message: MARKUP }
      ],
      'max-lines-per-function': ['error', 50],
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }]
    }
  },
  {
    files: ['src/__tests__/**'],
    rules: { 'no-restricted-properties': 'off', 'max-lines-per-function': 'off' }
  }
);
