import { render } from 'preact';
import { App } from './app';
import { Store } from './store';

const store = new Store();
render(<App store={store} />, document.body);
store.connect();
